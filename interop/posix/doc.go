// Package posix is a suite of small functions over a directory, each for one POSIX or
// Linux requirement on file systems. A function does not judge: it records its
// observations as words and numbers that can be compared between any two file systems
// (error names, modes, sizes, which times changed; no inode numbers and no times).
//
//	Run(tmpfs)  ──▶ transcript ┐
//	Run(mount)  ──▶ transcript ┴─▶ Compare ──▶ deviations of the mount from tmpfs
//
// A file system's legitimate deviations are listed as Differences: the function, the
// reference's lines and the lines in their place. An unlisted difference is a fault, and
// so is a listed difference that does not occur.
//
// The functions must not know the file system, server or transport. They run
// one after the other, because some change the process's umask.
package posix
