package realm

import (
	"hash/maphash"
	"sync"
)

// nameLocks are locks of names in directories, made on demand. No name waits
// for another name, and thus none waits for another name's storage.
type nameLocks struct {
	seed maphash.Seed

	mu    sync.Mutex
	names map[uint64]*nameLock
	spare []*nameLock
}

// A nameLock is the lock of one name, for its holder and the waiting requests.
type nameLock struct {
	mu    sync.Mutex
	users int
}

// heldNames are the names that a request has locked.
type heldNames struct {
	names [2]uint64
	n     int
}

// maxSpareLocks is how many unused locks are kept.
const maxSpareLocks = 64

func (l *nameLocks) init() { l.seed, l.names = maphash.MakeSeed(), make(map[uint64]*nameLock) }

// number returns a number for a name in the directory with key dir. If two
// names had the same number, which practically never happens, one would only
// wait for the other.
func (l *nameLocks) number(dir []byte, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	h.Write(dir)
	h.WriteString(name) // keys of one file system have one length
	return h.Sum64()
}

// lock waits until it holds the locks of two names, or of one name given twice.
func (l *nameLocks) lock(held *heldNames, names [2]uint64) {
	if names[0] > names[1] { // the same order everywhere prevents deadlocks
		names[0], names[1] = names[1], names[0]
	}
	held.names, held.n = names, 2
	if names[0] == names[1] {
		held.n = 1
	}
	for _, name := range names[:held.n] {
		l.enter(name).mu.Lock()
	}
}

func (l *nameLocks) enter(name uint64) *nameLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.names[name]
	if k == nil {
		if n := len(l.spare); n > 0 {
			k, l.spare = l.spare[n-1], l.spare[:n-1]
		} else {
			k = new(nameLock)
		}
		l.names[name] = k
	}
	k.users++
	return k
}

// unlock releases the held locks, if any.
func (l *nameLocks) unlock(held *heldNames) {
	if held.n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range held.names[:held.n] {
		k := l.names[name]
		k.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.names, name)
			if len(l.spare) < maxSpareLocks {
				l.spare = append(l.spare, k)
			}
		}
	}
	held.n = 0
}
