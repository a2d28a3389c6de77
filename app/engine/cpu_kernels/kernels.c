/* The CPU's kernels: products of 8-bit weights, norms, gates, rotary embeddings, attention over a block, and a
   decoder layer of these.

   Every row is computed by itself, in an order that depends on nothing but the text before it: not on the other rows,
   nor on threads, nor on where its keys lie. So a row has the same bits in a step of one row and in one of 128.
   `launching.py`, `int8_linear.py`, `attention.py` and `layer.py` call these functions; all floats are float32.

   Static functions with `omp for` are called by every thread of a team, those without it by one. */

#include "vectors.h"
#include "int8.h"
#include "norms.h"
#include "attention.h"
#include "layer.h"
