// Package autofstest mounts file systems when a program uses their mount points, as the
// automounter of autofs does. The package must not depend on who uses them.
package autofstest
