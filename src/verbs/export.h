/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported names of libibverbs.so.1.
 *
 * A function of the ABI is defined under its plain name with VERBS_EXPORT before it, and listed in
 * libibverbs.map, which gives it its version. VERBS_VERSION is for names that exist under more than
 * one version; it stands behind the definition, in the same file.
 */
#ifndef VERBS_EXPORT_H
#define VERBS_EXPORT_H

#define VERBS_EXPORT __attribute__((visibility("default")))

/*
 * Makes `function` answer to `name` in the version given as "@NODE", for programs that were linked
 * to that node, or as "@@NODE", the default. `function` must not be called `name`: where a plain
 * name has an alias at its own address, the linker drops the plain one.
 */
#define VERBS_VERSION(function, name, version) __asm__(".symver " #function ", " #name version)

#endif
