  real bad(real x) {
    return y;
  }
