package vfs

import (
	"strings"
	"syscall"
)

// CheckName refuses what cannot be one component of a path, with the errors of
// RFC 1813, Section 3.2: EACCES for the empty name and for one with "/" or NUL in
// it, ENAMETOOLONG for one of more than limit octets.
func CheckName(name string, limit int) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return syscall.EACCES
	case len(name) > limit:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// IsDots tells whether a name is "." or "..", which each directory has.
func IsDots(name string) bool { return name == "." || name == ".." }
