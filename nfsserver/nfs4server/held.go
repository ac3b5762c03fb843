package nfs4server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A HeldFile is what clients hold of a file, and where the file is.
type HeldFile struct {
	nfs4state.HeldFile
	exportset.Location
	Counters []CounterHolder // mounts with delegation counters; none in the list of a client's files
}

// A CounterHolder is a connection that holds a file by delegation counters.
type CounterHolder struct {
	Peer     *oncrpc.Peer
	Recalled bool
}

// maxHeldEntries bounds the entries of a HeldFile of each kind.
const maxHeldEntries = 1000

// A HeldPage is a part of the list of held files.
type HeldPage struct {
	Files  []HeldFile
	Rest   int    // the number of further files
	Waited int    // of SampleHeldFiles: the number of files with waiters
	Next   string // the key of the last file, for the next page; empty: there is none
}

// HeldFiles lists at most limit files that a client, or any client if id is 0, holds, after the key
// that is the previous page's Next. It finds the files' locations within locateTime: storage may
// hang. The status is NFS4ERR_STALE_CLIENTID if there is no such client. Files that only mounts with
// delegation counters hold are not listed.
func (s *Server) HeldFiles(ctx context.Context, id uint64, after string, limit int) (p HeldPage, status nfs4.Status) {
	keys, rest, status := s.state.HeldKeys(id, after, limit)
	return s.heldPage(ctx, id, keys, rest, limit), status
}

// SampleHeldFiles returns at most limit files that clients hold, those first for locks of which an
// owner waits.
func (s *Server) SampleHeldFiles(ctx context.Context, limit int) HeldPage {
	keys, waited := s.state.WaitedKeys(limit)
	others, rest, _ := s.state.HeldKeys(0, "", limit)
	all := len(others) + rest
	for _, key := range others {
		if len(keys) < limit && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	p := s.heldPage(ctx, 0, keys, max(all-len(keys), 0), limit)
	p.Next, p.Waited = "", waited
	return p
}

// heldPage returns the files with the given keys, after which rest further ones follow.
func (s *Server) heldPage(ctx context.Context, id uint64, keys []string, rest, limit int) (p HeldPage) {
	left := limit * heldPerFile
	for i, key := range keys {
		if left <= 0 || ctx.Err() != nil {
			rest, keys = rest+len(keys)-i, keys[:i]
			break
		}
		if f, ok := s.heldFile(key, id, min(left, maxHeldEntries)); ok {
			left -= len(f.Opens) + len(f.Delegations) + len(f.Locks) + len(f.Waiters) + len(f.Counters)
			p.Files = append(p.Files, f)
		}
	}
	if p.Rest = rest; rest > 0 && len(keys) > 0 {
		p.Next = keys[len(keys)-1]
	}
	s.locateFiles(ctx, p.Files)
	return p
}

// heldPerFile is the number of entries per file that a page has space for on average.
const heldPerFile = 10

// HeldObject returns what clients hold of an object (exportset.ObjectName), or false if they hold
// nothing.
func (s *Server) HeldObject(ctx context.Context, object string) (HeldFile, bool) {
	f, ok := s.heldFile(object, 0, maxHeldEntries)
	list := []HeldFile{f}
	s.locateFiles(ctx, list)
	return list[0], ok
}

func (s *Server) heldFile(key string, id uint64, limit int) (f HeldFile, ok bool) {
	f.HeldFile, ok = s.state.HeldFile(key, id, limit)
	if id != 0 {
		return f, ok
	}
	for i, h := range s.exports.CounterHolders(key, limit+1) {
		if i == limit {
			f.Omitted = true
			break
		}
		if p, is := h.Conn.(*oncrpc.Peer); is {
			f.Counters = append(f.Counters, CounterHolder{p, h.Recalled})
		}
	}
	return f, ok || len(f.Counters) > 0
}

// HasHostPath reports whether a path on the host lies in an export: exportset.Set.HasHostPath.
func (s *Server) HasHostPath(path string) bool { return s.exports.HasHostPath(path) }

// locateTime is the maximum time for the locations in a list.
const locateTime = 2 * time.Second

// Bounds of the goroutines that wait for storage to locate files.
const (
	maxLocating    = 4  // in one export
	maxAllLocating = 64 // in all
)

// locators counts the goroutines that locate files, by export.
type locators struct {
	mu       sync.Mutex
	byExport map[string]int
	all      int
}

// add counts a goroutine, and returns false if there are too many.
func (l *locators) add(export string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byExport[export] == maxLocating || l.all == maxAllLocating {
		return false
	}
	if l.byExport == nil {
		l.byExport = make(map[string]int)
	}
	l.byExport[export]++
	l.all++
	return true
}

func (l *locators) remove(export string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byExport[export]--; l.byExport[export] == 0 {
		delete(l.byExport, export)
	}
}

// A locatedFile is the location of a file in a list.
type locatedFile struct {
	index    int
	location exportset.Location
}

// locateFiles sets the files' locations. Without an answer from the storage, only the exports are
// known: an export with hung storage hides no other export's paths.
func (s *Server) locateFiles(ctx context.Context, list []HeldFile) {
	handles := make([]string, len(list))
	byExport := make(map[string][]int)
	for i := range list {
		handles[i] = list[i].Handle
		if e := s.exports.LocateExport([]byte(handles[i])); e != "" {
			list[i].Export = e
			byExport[e] = append(byExport[e], i)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, locateTime)
	defer cancel()
	found, waiting := make(chan locatedFile), 0
	for export, indexes := range byExport {
		if !s.locating.add(export) {
			continue
		}
		waiting += len(indexes)
		go func() {
			defer s.locating.remove(export)
			for _, i := range indexes {
				select {
				case found <- locatedFile{i, s.exports.Locate(ctx, []byte(handles[i]))}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for range waiting {
		select {
		case l := <-found:
			list[l.index].Location = l.location
		case <-ctx.Done():
			return
		}
	}
}
