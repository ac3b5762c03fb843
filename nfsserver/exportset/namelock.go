package exportset

import (
	"hash/maphash"
	"sync"
)

// nameLocks are locks for names in directories, created on demand. A request for one name does
// not wait for requests for other names, nor for their storage.
type nameLocks struct {
	seed maphash.Seed

	mu         sync.Mutex
	names      map[uint64]*nameLock
	spareLocks []*nameLock
}

// A nameLock is the lock for one name, shared by its holder and the waiting requests.
type nameLock struct {
	mu    sync.Mutex
	users int
}

// heldNames are the names that a request has locked.
type heldNames struct {
	names [2]uint64
	n     int
}

// maxSpareLocks is the number of unused locks to keep.
const maxSpareLocks = 64

func (l *nameLocks) init() { l.seed, l.names = maphash.MakeSeed(), make(map[uint64]*nameLock) }

// hashName returns a number for a name in the directory with key dir. If two names had the same
// number, which practically never happens, one would only wait for the other.
func (l *nameLocks) hashName(dir []byte, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	h.Write(dir)
	h.WriteString(name) // all keys in a file system have the same length
	return h.Sum64()
}

// lockNames waits until it holds the locks for two names, or for one name given twice.
func (l *nameLocks) lockNames(held *heldNames, names [2]uint64) {
	if names[0] > names[1] { // the same order everywhere prevents deadlocks
		names[0], names[1] = names[1], names[0]
	}
	held.names, held.n = names, 2
	if names[0] == names[1] {
		held.n = 1
	}
	for _, name := range names[:held.n] {
		l.findOrAddLock(name).mu.Lock()
	}
}

// findOrAddLock returns the lock for a name, which the caller must then lock, and counts the
// caller as a user.
func (l *nameLocks) findOrAddLock(name uint64) *nameLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.names[name]
	if k == nil {
		if n := len(l.spareLocks); n > 0 {
			k, l.spareLocks = l.spareLocks[n-1], l.spareLocks[:n-1]
		} else {
			k = new(nameLock)
		}
		l.names[name] = k
	}
	k.users++
	return k
}

// unlockNames releases the held locks, if any.
func (l *nameLocks) unlockNames(held *heldNames) {
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
			if len(l.spareLocks) < maxSpareLocks {
				l.spareLocks = append(l.spareLocks, k)
			}
		}
	}
	held.n = 0
}
