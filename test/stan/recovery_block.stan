// error: 4:1 the model block must stand before
// error: 4:7 this `{` of the model block is never closed
generated quantities { real a = 1; }
model {
  real x = 2;
