/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Export - the exported names of libibverbs.so.1.
 *
 * A function of the ABI is defined under its plain name after VERBS_EXPORT; libibverbs.map gives it
 * its version. A name with more than one version has a VERBS_VERSION after the definition, in the
 * same file, which is compiled without optimization at link time (meson.build).
 */
#ifndef VERBS_EXPORT_H
#define VERBS_EXPORT_H

#define VERBS_EXPORT __attribute__((visibility("default")))

/*
 * Exports `function` as `name` in a version: "@NODE" for programs that were linked to that node,
 * "@@NODE" as the default. `function` must not be called `name`: the linker drops a plain name that
 * has an alias at its own address.
 */
#define VERBS_VERSION(function, name, version) __asm__(".symver " #function ", " #name version)

#endif
