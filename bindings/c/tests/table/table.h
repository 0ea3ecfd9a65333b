/* The cases of bindings/conformance.toml, in the form in which the test `conformance.rs` writes them for C. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>

/* `len` bytes, `times` times. */
struct piece {
    const char *once;
    size_t len;
    size_t times;
};

enum value_kind { NONE, BYTES, INTEGER, LIST, FIELDS };

struct field;

/* What belongs to an argument or an expectation. A boolean is an integer. */
struct value {
    enum value_kind kind;
    int64_t integer;
    const struct piece *pieces;
    const struct value *items;
    const struct field *fields;
    size_t count; /* of pieces, items or fields */
};

struct field {
    const char *name;
    struct value value;
};

struct step {
    const char *op;
    const struct field *arguments;
    size_t argument_count;
    struct value is;        /* NONE: nothing is compared */
    int number;             /* of errno.h; 0: it succeeds */
};

struct table_case {
    const char *name;
    int begins_with_folder;
    const struct step *steps;
    size_t step_count;
};

extern const struct table_case table_cases[];
extern const size_t table_case_count;
extern const struct field table_key_files[];
extern const size_t table_key_file_count;

#endif
