/* read_json.h: members of a summary.json again. What is missing, or of another kind, ends with
 * PVI_DATA and its place. */
#ifndef PVI_READ_JSON_H
#define PVI_READ_JSON_H

#include "data/json.h"
#include "report/summary.h"

const Json *read_member(Ctx *c, const Json *j, const char *key, JsonKind kind);
const char *read_text(Ctx *c, const Json *j, const char *key);
/* "nan", "inf" and "-inf", as JsonWriter puts them, are numbers too. */
double read_number(Ctx *c, const Json *j, const char *key);
double read_maybe(Ctx *c, const Json *j, const char *key); /* NAN where it is absent */
size_t read_count(Ctx *c, const Json *j, const char *key); /* whole, and not below zero */
bool read_truth(const Json *j, const char *key);
/* "scores": PART_COUNT of them. */
void read_scores(Ctx *c, const Json *j, SummaryPart *parts);

#endif
