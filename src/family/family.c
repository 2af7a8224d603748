/* family.c: the table of families. */
#include "family/family.h"

#include <math.h>
#include <string.h>

/* What a row of families.def says of itself, by the family's number. */
static const struct {
  const char *name, *about;
  const Family *family;
} rows[FAMILY_COUNT] = {
#define FAMILY(id, name, about) [FAMILY_##id] = {name, about, &family_##id},
#include "family/families.def"
#undef FAMILY
};

const Family *family_of(FamilyId id) { return rows[id].family; }
const char *family_name(FamilyId id) { return rows[id].name; }
const char *family_about(FamilyId id) { return rows[id].about; }

bool family_find(const char *name, FamilyId *id) {
  for (int k = 0; k < FAMILY_COUNT; k++)
    if (!strcmp(rows[k].name, name)) {
      *id = (FamilyId)k;
      return true;
    }
  return false;
}

static size_t or_else(size_t given, size_t otherwise) { return given ? given : otherwise; }

Shape family_shape(FamilyId id, Shape s) {
  (void)id;
  s.components = or_else(s.components, 2);
  s.rank = or_else(s.rank, s.dim < 5 ? s.dim : 5);
  s.knots = or_else(s.knots, 32);
  s.layers = or_else(s.layers, 2);
  s.hidden = or_else(s.hidden, 16);
  return s;
}

double family_sd(double x) { return exp(x < -LOG_SD_LIMIT ? -LOG_SD_LIMIT : x > LOG_SD_LIMIT ? LOG_SD_LIMIT : x); }
