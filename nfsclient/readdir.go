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

// A DirEntry is an entry of a directory.
type DirEntry struct {
	Name   string
	FileID uint64

	// Handle is nil, and Attr is not OK, if the server did not provide them.
	Handle nfs3.FH
	Attr   nfs3.PostOpAttr
}

// ReadDir lists the directory at path without "." and "..", in the server's
// order. The sequence ends with the first error. It may be iterated over
// several times, and reads the directory anew each time. The loop body may make
// other calls, including calls that change the directory.
func (f *FS) ReadDir(ctx context.Context, path string) iter.Seq2[DirEntry, error] {
	return f.scan(ctx, path, false)
}

// ReadNames is ReadDir for entries without handles and attributes. For large
// directories, this costs the server much less.
func (f *FS) ReadNames(ctx context.Context, path string) iter.Seq2[DirEntry, error] {
	return f.scan(ctx, path, true)
}

func (f *FS) scan(ctx context.Context, path string, bare bool) iter.Seq2[DirEntry, error] {
	return func(yield func(DirEntry, error) bool) {
		p, err := f.walk(ctx, path, true)
		if err != nil {
			yield(DirEntry{}, pathError("readdir", path, err))
			return
		}
		s := scan{f: f, dir: p.node.Handle, bare: bare}
		for !s.eof {
			if err := s.page(ctx); err != nil {
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

// errName is the error for a name that no file can have. A caller that creates
// a file under a listed name must be able to trust that the name does not lead
// elsewhere.
var errName = errors.New("name with a slash or a zero byte, or empty")

// A scan reads a directory, one reply at a time.
type scan struct {
	f    *FS
	dir  nfs3.FH
	bare bool // names and numbers suffice

	entries      []DirEntry // from the last reply
	eof          bool
	cookie, verf uint64

	// The hashes of all names seen so far, unless there were more than maxSeen,
	// and the hashes to skip since the last restart.
	seen     []uint64
	tooLong  bool
	skip     map[uint64]bool
	restarts int // in a row, without a new name
}

var hashSeed = maphash.MakeSeed()

// page reads the next entries. If the server does not know the scan's cookie
// any more, page restarts from the beginning and skips entries seen before.
func (s *scan) page(ctx context.Context) error {
	for {
		err := s.read(ctx)
		switch {
		case errors.Is(err, nfs3.ErrBadCookie) && s.cookie != 0 && !s.tooLong && s.restarts < maxRestarts:
			s.restart()
			continue
		case err != nil || s.bare:
			return err
		}
		return s.complete(ctx)
	}
}

func (s *scan) restart() {
	s.restarts++
	s.cookie, s.verf = 0, 0
	s.skip = make(map[uint64]bool, len(s.seen))
	for _, h := range s.seen {
		s.skip[h] = true
	}
}

// read makes one call.
func (s *scan) read(ctx context.Context) error {
	s.entries = s.entries[:0]
	var bad error
	before := s.cookie
	each := func(e *nfs3.Entry) {
		s.cookie = e.Cookie
		if err := s.add(e); err != nil {
			bad = err
		}
	}
	res, eof, err := s.call(ctx, each)
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

// call is READDIRPLUS, or READDIR if no more is wanted or supported.
func (s *scan) call(ctx context.Context, each func(*nfs3.Entry)) (nfs3.DirRes, bool, error) {
	c, count := s.f.c, uint32(s.f.listSize)
	if !s.bare && !s.f.plain.Load() {
		a := nfs3.ReadDirPlusArgs{Dir: s.dir, Cookie: s.cookie, Verf: s.verf, DirCount: count, MaxCount: count}
		res, eof, err := c.ReadDirPlus(ctx, &a, each)
		if !errors.Is(err, nfs3.ErrNotSupp) {
			return res, eof, err
		}
		s.f.plain.Store(true)
	}
	return c.ReadDir(ctx, &nfs3.ReadDirArgs{Dir: s.dir, Cookie: s.cookie, Verf: s.verf, Count: count}, each)
}

// add keeps an entry unless it was seen before.
func (s *scan) add(e *nfs3.Entry) error {
	name := string(e.Name)
	switch {
	case name == "." || name == "..":
		return nil
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: %w: %q", ErrReply, errName, name)
	}
	h := maphash.String(hashSeed, name)
	if s.skip[h] {
		return nil
	}
	s.restarts = 0
	if s.tooLong = len(s.seen) == maxSeen; !s.tooLong {
		s.seen = append(s.seen, h)
	}
	s.entries = append(s.entries, DirEntry{Name: name, FileID: e.FileID, Handle: slices.Clone(e.Handle), Attr: e.Attr})
	return nil
}

// complete looks up missing handles and attributes. It drops entries removed
// meanwhile; an entry that the server refuses to look up stays incomplete.
func (s *scan) complete(ctx context.Context) error {
	var missing []*DirEntry
	for i := range s.entries {
		if e := &s.entries[i]; e.Handle == nil || !e.Attr.OK {
			missing = append(missing, e)
		}
	}
	_, _, err := inOrder(len(missing), s.f.c.cfg.Depth, func(i int) (int, error) {
		e := missing[i]
		n, err := s.f.lookup(ctx, s.dir, e.Name)
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
