package may

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The users in the tree, and their groups. Alice's and Bob's groups have the
// same numbers as these users.
const (
	Alice = 1001
	Bob   = 1002

	Early = 2000 // the group with the lowest number
	Late  = 2039 // the last of forty groups

	sticky = 0o1777
)

var (
	owners    = []int{0, Alice, Bob}
	groups    = []int{Early, Late}
	fileModes = []uint32{0o640, 0o060, 0o604, 0o077, 0o111}
	dirModes  = []uint32{0o750, 0o730, 0o070, 0o744, sticky, 0o2775}
)

// Sticky reports whether a line of Try or Look is about a sticky directory, in
// which users may remove only their own files. For such a directory Linux's
// client also decides, by the user's identity at the client.
func Sticky(line string) bool { return strings.Contains(line, fmt.Sprintf("-%o", sticky)) }

// Make makes the tree in dir, which must exist. It needs a superuser.
func Make(dir string) error {
	defer unix.Umask(unix.Umask(0))
	for _, uid := range owners {
		for _, gid := range groups {
			for _, mode := range fileModes {
				if err := makeFile(filepath.Join(dir, fmt.Sprintf("file-%d-%d-%o", uid, gid, mode)), uid, gid, mode); err != nil {
					return err
				}
			}
			for _, mode := range dirModes {
				name := filepath.Join(dir, fmt.Sprintf("dir-%d-%d-%o", uid, gid, mode))
				if err := makeDirectory(name, uid, gid, mode); err != nil {
					return err
				}
			}
		}
	}
	return os.Chmod(dir, 0o755)
}

func makeFile(name string, uid, gid int, mode uint32) error {
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		return err
	}
	return setOwner(name, uid, gid, mode)
}

// makeDirectory makes a directory with files, some protected by a sticky bit.
func makeDirectory(name string, uid, gid int, mode uint32) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	for child, owner := range map[string]int{"root's": 0, "alice's": Alice, "bob's": Bob} {
		if err := makeFile(filepath.Join(name, child), owner, owner, 0o644); err != nil {
			return err
		}
	}
	return setOwner(name, uid, gid, mode)
}

func setOwner(name string, uid, gid int, mode uint32) error {
	if err := unix.Chown(name, uid, gid); err != nil {
		return err
	}
	return unix.Chmod(name, mode)
}
