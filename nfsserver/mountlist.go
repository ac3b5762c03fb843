package nfsserver

import (
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
)

// A mountEntry is a client and the path that the client mounted.
type mountEntry struct{ host, path string }

func (e *mountEntry) wireSize() int { return mount3.MountSize(len(e.host), len(e.path)) }

// A mountList remembers the clients that called MNT. Nothing depends on it: clients that crash
// stay in the list, and newer entries replace old ones.
type mountList struct {
	mu      sync.Mutex
	entries []mountEntry // the oldest first, at most maxMounts
}

func (l *mountList) addMount(host, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := mountEntry{host, path}
	if slices.Contains(l.entries, e) {
		return
	}
	if len(l.entries) == maxMounts {
		l.entries = slices.Delete(l.entries, 0, 1)
	}
	l.entries = append(l.entries, e)
}

func (l *mountList) removeMount(host, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(e mountEntry) bool { return e == mountEntry{host, path} })
}

func (l *mountList) removeAll(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = slices.DeleteFunc(l.entries, func(e mountEntry) bool { return e.host == host })
}

// resultSize returns the size of DUMP's results in bytes.
func (l *mountList) resultSize() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := mount3.ListEnd
	for _, e := range l.entries {
		n += e.wireSize()
	}
	return n
}

// appendTo appends DUMP's results, with as many entries as fit into limit bytes: the protocol
// cannot continue the list.
func (l *mountList) appendTo(b []byte, limit int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var res mount3.DumpRes
	limit -= mount3.ListEnd
	for _, e := range l.entries {
		if limit -= e.wireSize(); limit < 0 {
			break
		}
		res.Mounts = append(res.Mounts, mount3.Mount{Host: []byte(e.host), Path: []byte(e.path)})
	}
	return res.AppendTo(b)
}
