package billy

import (
	"cmp"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// An entry is a name in a directory, and its cookie.
type entry struct {
	cookie uint64
	name   string
}

// listings are the names in directories that clients are listing. A billy file system returns a
// directory as a whole, but a client reads it in small pieces.
type listings struct {
	mu   sync.Mutex
	list []listing // the oldest first
}

type listing struct {
	dir   *node
	at    time.Time
	names []entry
}

// sortedNames returns the names in d in cookie order. fresh bypasses the cache.
func (f *FS) sortedNames(d *object, fresh bool) ([]entry, error) {
	if !fresh {
		if names, ok := f.lists.getListing(d.n); ok {
			return names, nil
		}
	}
	infos, err := f.fs.ReadDir(d.name)
	if err != nil {
		return nil, f.errnoOf(err)
	}
	names := make([]entry, 0, len(infos))
	for _, fi := range infos {
		if name := fi.Name(); checkNewName(name) == nil {
			names = append(names, entry{cookieOf(name), name})
		}
	}
	slices.SortFunc(names, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.cookie, b.cookie), cmp.Compare(a.name, b.name))
	})
	for i := 1; i < len(names); i++ {
		names[i].cookie = max(names[i].cookie, names[i-1].cookie+1)
	}
	f.lists.putListing(listing{d.n, time.Now(), names})
	return names, nil
}

// cookieOf returns a name's cookie: its 64-bit FNV-1a hash, without the highest bit, which not all
// clients support, and above the cookies for "." and "..".
func cookieOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return max(h.Sum64()>>1, cookieDotDot+1)
}

func (l *listings) getListing(dir *node) ([]entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, old := range l.list {
		if old.dir == dir && time.Since(old.at) < listingAge {
			return old.names, true
		}
	}
	return nil, false
}

func (l *listings) putListing(n listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(old listing) bool {
		return old.dir == n.dir || time.Since(old.at) >= listingAge
	})
	if len(l.list) == maxListings {
		l.list = slices.Delete(l.list, 0, 1)
	}
	l.list = append(l.list, n)
}
