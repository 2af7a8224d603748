  int N;
