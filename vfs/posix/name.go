//go:build linux

package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

// checkName rejects a name that cannot be one path component. The error is EACCES, as in RFC 1813,
// Section 3.2. The kernel checks the length.
func checkName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return unix.EACCES
	case len(name) > maxName:
		return unix.ENAMETOOLONG
	}
	return nil
}

func isDots(name string) bool { return name == "." || name == ".." }

// checkNewName is checkName for a new object: "." and ".." always exist.
func checkNewName(name string) error {
	if isDots(name) {
		return unix.EEXIST
	}
	return checkName(name)
}
