// ok
/* comments and strings may hold any letters: äöü, 数学 */
model {
  print("größer: ", 1, "数学"); // ñ
}
