package tickets

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// directories are those in which a user's credential caches are, if the
// configuration of Kerberos names another: sshd and display managers make one for
// each session.
func directories(uid uint32) []string { return []string{"/tmp", fmt.Sprintf("/run/user/%d", uid)} }

// findCaches returns the names of a user's credential caches: the default of the
// configuration, then those in the directories, the newest first.
func findCaches(uid uint32, directories []string) []string {
	type cache struct {
		name string
		at   time.Time
	}
	var found []cache
	for _, dir := range directories {
		for _, name := range names(dir, fmt.Sprintf("krb5cc_%d", uid)) {
			path := filepath.Join(dir, name)
			if kind, at, ok := ofUser(path, uid); ok {
				found = append(found, cache{kind + path, at})
			}
		}
	}
	slices.SortFunc(found, func(a, b cache) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.name, b.name)) })
	list := []string{""}
	for _, c := range found[:min(len(found), maxCaches)] {
		list = append(list, c.name)
	}
	return list
}

// names returns the names of dir that can be a cache's: own, own with a suffix, and
// krb5cc, as in /run/user.
func names(dir, own string) (list []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil // there is no such place on this host
	}
	defer f.Close()
	for seen := 0; seen < maxNames; {
		some, err := f.Readdirnames(1024)
		seen += len(some)
		for _, name := range some {
			if name == own || name == "krb5cc" || strings.HasPrefix(name, own+"_") {
				list = append(list, name)
			}
		}
		if err != nil { // io.EOF at the end
			break
		}
	}
	return list
}

// ofUser reports whether a cache belongs to a user, and nobody else may use it.
// Another user can make a cache with that name.
func ofUser(path string, uid uint32) (kind string, at time.Time, ok bool) {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil || s.Uid != uid || s.Mode&0o077 != 0 {
		return "", time.Time{}, false
	}
	at = time.Unix(s.Mtim.Unix())
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "FILE:", at, true
	case unix.S_IFDIR:
		return "DIR:", at, true
	}
	return "", time.Time{}, false
}
