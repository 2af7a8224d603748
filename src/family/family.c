/* family.c: the table of families. */
#include "family/family.h"

#include <math.h>

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

double family_sd(double x) { return exp(x < -LOG_SD_LIMIT ? -LOG_SD_LIMIT : x > LOG_SD_LIMIT ? LOG_SD_LIMIT : x); }
