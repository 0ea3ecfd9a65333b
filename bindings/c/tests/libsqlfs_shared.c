/* Another file of the program in libsqlfs.c: NULL is the same vault here as there. */
#include "sqlfs.h"

int is_dir_for_another_file(const char *path);

int is_dir_for_another_file(const char *path)
{
    return sqlfs_is_dir(NULL, path);
}
