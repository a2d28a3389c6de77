/* Kernels for CPUs: products of packed or of 8-bit weights, norms, gates, rotary embeddings, attention over a block, a
   decoder layer of these, and a step's table of paths.

   Every row is computed by itself, in an order that depends only on the text before the row, not on other rows, on
   threads or on the addresses of its keys. So a row's results are bitwise identical in a step of one row and in a step
   of 128. Activations are float32.

   A static function that contains `omp for`, or calls such a function, is called by all threads of a team. Any other
   static function is called by one thread. */

#include "vectors.h"
#if defined(PACKED)
#include "packed.h"
#include "sums.h"
#include "products.h"
#else
#include "int8.h"
#endif
#include "norms.h"
#include "attention.h"
#include "layer.h"
#if defined(PACKED)
#include "experts.h"
#endif
#include "paths.h"
