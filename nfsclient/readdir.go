package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A DirEntry is a directory entry.
type DirEntry struct {
	Name   string
	FileID uint64

	// Handle is nil, and Attr is not OK, if the server did not provide them.
	Handle nfs3.FH
	Attr   nfs3.PostOpAttr
}

// ReadDir lists the directory at path without "." and "..", in the server's
// order. The sequence stops at the first error. It may be iterated over several
// times, and reads the directory again each time. The loop body may make other
// calls, including calls that change the directory.
func (f *FS) ReadDir(ctx context.Context, path string) iter.Seq2[DirEntry, error] {
	return f.scanDir(ctx, path, false)
}

// ReadNames lists the directory at path like ReadDir, but without handles and
// attributes. For large directories, this costs the server much less.
func (f *FS) ReadNames(ctx context.Context, path string) iter.Seq2[DirEntry, error] {
	return f.scanDir(ctx, path, true)
}

func (f *FS) scanDir(ctx context.Context, path string, bare bool) iter.Seq2[DirEntry, error] {
	return func(yield func(DirEntry, error) bool) {
		p, err := f.walkPath(ctx, path, true)
		if err != nil {
			yield(DirEntry{}, pathError("readdir", path, err))
			return
		}
		s := dirScan{f: f, dir: p.node.Handle, namesOnly: bare}
		for !s.eof {
			if err := s.readPage(ctx); err != nil {
				yield(DirEntry{}, pathError("readdir", path, err))
				return
			}
			for _, e := range s.entries {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// errInvalidName is the error for a name that no file can have. A caller that
// creates a file with a listed name must be able to trust that the name does
// not lead elsewhere.
var errInvalidName = errors.New("name with a slash or a zero byte, or empty")

// A dirScan is the state of a directory listing, which reads one reply at a
// time.
type dirScan struct {
	f         *FS
	dir       nfs3.FH
	namesOnly bool // names and file IDs suffice

	entries      []DirEntry // from the last reply
	eof          bool
	cookie, verf uint64

	// seen holds the hashes of all names seen so far, unless there were more
	// than maxSeen; skip holds the hashes to skip since the last restart.
	seen         []uint64
	tooManyNames bool
	skip         map[uint64]bool
	restarts     int // consecutive restarts without a new name
}

var hashSeed = maphash.MakeSeed()

// readPage reads the next entries. If the server no longer knows the scan's
// cookie, readPage restarts from the beginning and skips entries seen before.
func (s *dirScan) readPage(ctx context.Context) error {
	for {
		err := s.readOnce(ctx)
		switch {
		case errors.Is(err, nfs3.ErrBadCookie) && s.cookie != 0 && !s.tooManyNames && s.restarts < maxRestarts:
			s.restartListing()
			continue
		case err != nil || s.namesOnly:
			return err
		}
		return s.lookUpMissing(ctx)
	}
}

func (s *dirScan) restartListing() {
	s.restarts++
	s.cookie, s.verf = 0, 0
	s.skip = make(map[uint64]bool, len(s.seen))
	for _, h := range s.seen {
		s.skip[h] = true
	}
}

// readOnce sends one call and stores its entries.
func (s *dirScan) readOnce(ctx context.Context) error {
	s.entries = s.entries[:0]
	var bad error
	before := s.cookie
	each := func(e *nfs3.Entry) {
		s.cookie = e.Cookie
		if err := s.addEntry(e); err != nil {
			bad = err
		}
	}
	res, eof, err := s.listEntries(ctx, each)
	switch {
	case err != nil:
		return err
	case bad != nil:
		return bad
	case !eof && s.cookie == before:
		return fmt.Errorf("%w: the directory listing does not advance", ErrReply)
	}
	s.verf, s.eof = res.Verf, eof
	return nil
}

// listEntries calls READDIRPLUS, or READDIR if names suffice or the server
// supports only READDIR.
func (s *dirScan) listEntries(ctx context.Context, each func(*nfs3.Entry)) (nfs3.DirRes, bool, error) {
	c, count := s.f.c, uint32(s.f.listSize)
	if !s.namesOnly && !s.f.noReadDirPlus.Load() {
		a := nfs3.ReadDirPlusArgs{Dir: s.dir, Cookie: s.cookie, Verf: s.verf, DirCount: count, MaxCount: count}
		res, eof, err := c.ReadDirPlus(ctx, &a, each)
		if !errors.Is(err, nfs3.ErrNotSupp) {
			return res, eof, err
		}
		s.f.noReadDirPlus.Store(true)
	}
	return c.ReadDir(ctx, &nfs3.ReadDirArgs{Dir: s.dir, Cookie: s.cookie, Verf: s.verf, Count: count}, each)
}

// addEntry appends an entry unless it was seen before.
func (s *dirScan) addEntry(e *nfs3.Entry) error {
	name := string(e.Name)
	switch {
	case name == "." || name == "..":
		return nil
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: %w: %q", ErrReply, errInvalidName, name)
	}
	h := maphash.String(hashSeed, name)
	if s.skip[h] {
		return nil
	}
	s.restarts = 0
	if s.tooManyNames = len(s.seen) == maxSeen; !s.tooManyNames {
		s.seen = append(s.seen, h)
	}
	s.entries = append(s.entries, DirEntry{Name: name, FileID: e.FileID, Handle: slices.Clone(e.Handle), Attr: e.Attr})
	return nil
}

// lookUpMissing looks up missing handles and attributes. It drops entries that
// no longer exist; an entry whose LOOKUP the server rejects stays incomplete.
func (s *dirScan) lookUpMissing(ctx context.Context) error {
	var missing []*DirEntry
	for i := range s.entries {
		if e := &s.entries[i]; e.Handle == nil || !e.Attr.OK {
			missing = append(missing, e)
		}
	}
	_, _, err := runInOrder(len(missing), s.f.c.cfg.Depth, func(i int) (int, error) {
		e := missing[i]
		n, err := s.f.lookUpNode(ctx, s.dir, e.Name)
		var refused *Error
		switch {
		case err == nil:
			e.Handle, e.Attr = n.Handle, nfs3.PostOpAttr{OK: true, Attr: n.Attr}
		case errors.Is(err, nfs3.ErrNoEnt):
			e.Name = ""
		case !errors.As(err, &refused):
			return 0, err
		}
		return 0, nil
	})
	s.entries = slices.DeleteFunc(s.entries, func(e DirEntry) bool { return e.Name == "" })
	return err
}
