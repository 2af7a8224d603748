// error: 3:8 letters beyond ASCII
model {
  real größe = 1;
}
