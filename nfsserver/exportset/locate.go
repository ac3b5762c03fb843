package exportset

import (
	"context"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A Location says where an object is, for administrators. It must not reach a client.
type Location struct {
	Export  string // the export's path, or empty
	Path    string // on the host, or empty if it is not known
	Removed bool   // the object has no name left
	FileID  uint64 // 0: unknown
}

// LocateExport returns the Export in a file handle's Location.
func (s *Set) LocateExport(fh []byte) string {
	id, err := s.ExportOf(fh)
	if err != nil {
		return ""
	}
	if e := s.snapshot.Load().byID[id]; e != nil {
		return e.Path
	}
	return ""
}

// Locate returns the Location of a file handle's object, as far as it is known. It waits for the
// storage as a call does, and checks no rights.
func (s *Set) Locate(ctx context.Context, fh []byte) (l Location) {
	id, h, err := s.seal.parseHandle(new(macBuffer), fh)
	e := s.snapshot.Load().byID[id]
	if err != nil || e == nil {
		return l
	}
	if l.Export = e.Path; !e.Enter() {
		return l
	}
	defer e.Leave()
	if h, err = e.resolveHandle(id, h); err != nil {
		return l
	}
	_ = s.RunWithPermit(ctx, nil, e, func() { // Later: the location remains unknown
		if a, err := e.FS.GetAttr(ctx, new(vfs.Cred), h); err == nil {
			l.FileID, l.Removed = a.FileID, a.Nlink == 0
		}
		f, ok := e.FS.(vfs.PathFinder)
		if !ok {
			return
		}
		if path, removed, err := f.HostPath(h); err == nil {
			l.Path, l.Removed = path, removed
		}
	})
	return l
}

// HasHostPath reports whether a path on the host, without symbolic links, lies in the directory of
// an export.
func (s *Set) HasHostPath(path string) bool {
	for _, e := range s.snapshot.Load().list {
		f, ok := e.FS.(vfs.PathFinder)
		if !ok || !e.Enter() {
			continue
		}
		dir, _, err := f.HostPath(e.FS.Root())
		e.Leave()
		if rest, in := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")); err == nil && in && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// ObjectName returns the name (AppendObject) of an object with a key (vfs.Identifier).
func ObjectName(key []byte) string { return "k" + string(key) }

// CounterHolders returns at most limit connections that hold an object by delegation counters. The
// object is named as by AppendObject.
func (s *Set) CounterHolders(object string, limit int) []recall.HolderInfo {
	key, ok := strings.CutPrefix(object, "k")
	if !ok {
		return nil
	}
	return s.holders.ConnHolders([]byte(key), limit)
}
