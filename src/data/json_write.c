/* json_write.c: the JSON writer: separators and indentation are decided in one place, `begin_item`.
 */
#include "data/json.h"
#include "data/number.h"

#include <assert.h>
#include <math.h>
#include <string.h>

JsonWriter json_writer(Text *out, bool pretty) {
  return (JsonWriter){.out = out, .pretty = pretty};
}

static void new_line(JsonWriter *w) {
  text_puts(w->out, "\n");
  for (int k = 0; k < w->depth; k++) text_puts(w->out, "  ");
}

static bool on_one_line(const JsonWriter *w) {
  return !w->pretty || (w->depth > 0 && w->flat[w->depth]);
}

/* Before a key of an object or an element of an array. */
static void begin_item(JsonWriter *w) {
  if (w->after_key) {
    w->after_key = false;
    return;
  }
  if (w->depth == 0) return;
  if (w->some[w->depth]) text_puts(w->out, on_one_line(w) && w->pretty ? ", " : ",");
  if (!on_one_line(w)) new_line(w);
  w->some[w->depth] = true;
}

static void open(JsonWriter *w, const char *bracket, bool flat) {
  begin_item(w);
  text_puts(w->out, bracket);
  bool inherited = w->depth > 0 && w->flat[w->depth];
  w->depth++;
  assert(w->depth < JSON_MAX_DEPTH);
  w->flat[w->depth] = flat || inherited;
  w->some[w->depth] = false;
}

static void close(JsonWriter *w, const char *bracket) {
  bool line = w->some[w->depth] && !on_one_line(w);
  w->depth--;
  if (line) new_line(w);
  text_puts(w->out, bracket);
}

void json_object(JsonWriter *w) { open(w, "{", false); }
void json_object_end(JsonWriter *w) { close(w, "}"); }
void json_array(JsonWriter *w) { open(w, "[", false); }
void json_flat_array(JsonWriter *w) { open(w, "[", true); }
void json_array_end(JsonWriter *w) { close(w, "]"); }

static void put_string(Text *out, const char *s) {
  text_puts(out, "\"");
  for (const char *run = s;; s++) {
    unsigned char ch = (unsigned char)*s;
    if (ch >= 32 && ch != '"' && ch != '\\') continue;
    text_add(out, run, (size_t)(s - run));
    run = s + 1;
    if (ch == 0) break;
    if (ch == '"' || ch == '\\')
      text_printf(out, "\\%c", ch);
    else if (ch == '\n')
      text_puts(out, "\\n");
    else if (ch == '\t')
      text_puts(out, "\\t");
    else
      text_printf(out, "\\u%04x", ch);
  }
  text_puts(out, "\"");
}

void json_key(JsonWriter *w, const char *key) {
  begin_item(w);
  put_string(w->out, key);
  text_puts(w->out, w->pretty ? ": " : ":");
  w->after_key = true;
}

void json_null(JsonWriter *w) {
  begin_item(w);
  text_puts(w->out, "null");
}

void json_string(JsonWriter *w, const char *s) {
  if (!s) {
    json_null(w);
    return;
  }
  begin_item(w);
  put_string(w->out, s);
}

void json_number(JsonWriter *w, double x) {
  char s[NUMBER_CHARS];
  size_t n = number_write(s, x);
  begin_item(w);
  if (!isfinite(x)) text_puts(w->out, "\"");
  text_add(w->out, s, n);
  if (!isfinite(x)) text_puts(w->out, "\"");
}

void json_integer(JsonWriter *w, long long k) {
  begin_item(w);
  text_printf(w->out, "%lld", k);
}

void json_unsigned(JsonWriter *w, unsigned long long k) {
  begin_item(w);
  text_printf(w->out, "%llu", k);
}

void json_bool(JsonWriter *w, bool b) {
  begin_item(w);
  text_puts(w->out, b ? "true" : "false");
}

void json_numbers(JsonWriter *w, const double *x, size_t n) {
  json_flat_array(w);
  for (size_t k = 0; k < n; k++) json_number(w, x[k]);
  json_array_end(w);
}
