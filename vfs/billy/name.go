package billy

import (
	"strings"
	"syscall"
)

// checkName refuses what cannot be one component of a path: EACCES, as RFC
// 1813, Section 3.2, has it.
func checkName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return syscall.EACCES
	case len(name) > maxName:
		return syscall.ENAMETOOLONG
	}
	return nil
}

func isDots(name string) bool { return name == "." || name == ".." }

// checkNewName is checkName for an object to be made: "." and ".." are there.
func checkNewName(name string) error {
	if isDots(name) {
		return syscall.EEXIST
	}
	return checkName(name)
}
