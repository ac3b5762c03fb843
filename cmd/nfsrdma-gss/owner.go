package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// checkOwner checks that a credential cache with a full name belongs to a user, and
// that no other user may access it. The library does not check that: another user could
// put a cache into /tmp, and the user's calls would then be made as that user's
// principal. Caches in kernel keyrings and KCM always belong to their users.
func checkOwner(name string, uid uint32) error {
	kind, path, found := strings.Cut(name, ":")
	if !found {
		kind, path = "FILE", name
	}
	switch kind {
	case "FILE", "WRFILE":
		return checkPath(path, uid, unix.S_IFREG)
	case "DIR":
		if file, one := strings.CutPrefix(path, ":"); one { // one cache in a collection
			if err := checkPath(filepath.Dir(file), uid, unix.S_IFDIR); err != nil {
				return err
			}
			return checkPath(file, uid, unix.S_IFREG)
		}
		return checkPath(path, uid, unix.S_IFDIR)
	}
	return nil
}

// checkPath checks a file or a directory. A symbolic link must belong to the user or
// to root.
func checkPath(path string, uid, kind uint32) error {
	var s unix.Stat_t
	err := unix.Lstat(path, &s)
	if err == nil && s.Mode&unix.S_IFMT == unix.S_IFLNK {
		if s.Uid != uid && s.Uid != 0 {
			return fmt.Errorf("%s is a symbolic link of user %d", path, s.Uid)
		}
		err = unix.Stat(path, &s)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return errNoCache
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case s.Mode&unix.S_IFMT != kind:
		return fmt.Errorf("%s has the wrong file type", path)
	case s.Uid != uid:
		return fmt.Errorf("%s belongs to user %d", path, s.Uid)
	case s.Mode&0o077 != 0:
		return fmt.Errorf("other users may access %s (mode %04o): run chmod go= on it", path, s.Mode&0o7777)
	}
	return nil
}

// errNoCache reports that a cache does not exist.
var errNoCache = errors.New("no such file or directory")
