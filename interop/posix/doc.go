// Package posix is one suite of small functions over a directory, each about one
// thing that POSIX or Linux says of file systems. A function does not judge: it
// writes down what it saw, in words and numbers that any two file systems can be
// compared by (names of errors, modes, sizes, which times changed; no inode
// numbers and no times).
//
//	Run(tmpfs)  ──▶ transcript ┐
//	Run(mount)  ──▶ transcript ┴─▶ Compare ──▶ where the mount is not like tmpfs
//
// Where a file system may rightly differ is written down too, as a Difference: the
// function, the lines of the reference and those that stand there instead. A
// difference that is not listed is a fault, and so is one that is listed and does
// not show.
//
// The functions must not know which file system, server or transport they work on.
// They are taken one after the other: some change the umask of the process.
package posix
