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

// cacheDirectories returns the directories that may contain a user's credential caches
// besides the configured one: sshd and display managers create one for each session.
func cacheDirectories(uid uint32) []string { return []string{"/tmp", fmt.Sprintf("/run/user/%d", uid)} }

// findCaches returns the names of a user's credential caches: the configured default,
// then those in the directories, the newest first.
func findCaches(uid uint32, directories []string) []string {
	type cache struct {
		name string
		at   time.Time
	}
	var found []cache
	for _, dir := range directories {
		for _, name := range cacheNames(dir, fmt.Sprintf("krb5cc_%d", uid)) {
			path := filepath.Join(dir, name)
			if kind, at, ok := checkCacheOwner(path, uid); ok {
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

// cacheNames returns the names in dir that may be caches: own, own with a suffix, and
// krb5cc, as in /run/user.
func cacheNames(dir, own string) (list []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil // this host has no such directory
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

// checkCacheOwner reports whether a cache belongs to a user, and is inaccessible to
// others. Another user could create a cache with that name.
func checkCacheOwner(path string, uid uint32) (kind string, at time.Time, ok bool) {
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
