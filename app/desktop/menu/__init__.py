"""An entry in the system's menu: what is written where, as plain values, and the few lines that write them."""
