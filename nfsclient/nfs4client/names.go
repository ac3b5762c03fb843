package nfs4client

import (
	"context"
	"iter"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Walk returns the handle for the object at a path, relative to the server's
// namespace root. Empty names are ignored, so "" and "/" are the root. Walk
// sends as few COMPOUNDs as the session allows.
func (s *Session) Walk(ctx context.Context, path string) (nfs4.FH, error) {
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	var at nfs4.FH
	for {
		n := min(len(names), max(int(s.current.Load().fore.MaxOperations)-3, 1)) // besides SEQUENCE, PUTFH and GETFH
		c := s.getCompound()
		if at == nil {
			c.PutRootFH()
		} else {
			c.PutFH(at)
		}
		for _, name := range names[:n] {
			c.Lookup(name)
		}
		var res nfs4.HandleRes
		c.GetFH(&res)
		err := s.Do(ctx, c)
		at, names = append(nfs4.FH(nil), res.Object...), names[n:]
		s.putCompound(c)
		if err != nil || len(names) == 0 {
			return at, err
		}
	}
}

// GetAttr returns an object's attributes. The server omits attributes that it
// does not have: see the result's Mask. Owner names in the result are copies.
func (s *Session) GetAttr(ctx context.Context, h nfs4.FH, mask nfs4.Bitmap) (nfs4.Attrs, error) {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(h)
	c.GetAttr(mask, &c.getAttrRes)
	if err := s.Do(ctx, c); err != nil {
		return nfs4.Attrs{}, err
	}
	a := &c.getAttrRes.Attrs
	if more := a.Mask.Without(mask); !more.Empty() {
		return nfs4.Attrs{}, replyError("GETATTR: attributes %x were not requested", more.Words)
	}
	detachAttrs(a)
	return *a, nil
}

// detachAttrs copies the slices in a, which alias the reply.
func detachAttrs(a *nfs4.Attrs) {
	for _, p := range []*[]byte{&a.Owner, &a.OwnerGroup, (*[]byte)(&a.FileHandle)} {
		*p = append([]byte(nil), *p...)
	}
	a.FSLocations = nfs4.FSLocations{}
}

// Access returns the subset of the rights want (nfs4.AccessRead and so on) that
// the caller has.
func (s *Session) Access(ctx context.Context, h nfs4.FH, want uint32) (uint32, error) {
	var res nfs4.AccessRes
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(h)
	c.Add(nfs4.OpAccess, &nfs4.AccessArgs{Access: want}, &res)
	err := s.Do(ctx, c)
	return res.Access & want, err
}

// SetAttr sets an object's attributes. For an open file's size, use
// File.Truncate.
func (s *Session) SetAttr(ctx context.Context, h nfs4.FH, attrs *nfs4.Attrs) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(h)
	c.Add(nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: *attrs}, new(nfs4.SetAttrRes))
	return s.Do(ctx, c)
}

// Mkdir creates a directory, and returns its handle.
func (s *Session) Mkdir(ctx context.Context, dir nfs4.FH, name string, mode uint32) (nfs4.FH, error) {
	var fh nfs4.HandleRes
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(dir)
	c.Add(nfs4.OpCreate, &nfs4.CreateArgs{
		Type: nfs4.TypeDir, Name: []byte(name), Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: mode},
	}, new(nfs4.CreateRes))
	c.GetFH(&fh)
	err := s.Do(ctx, c)
	return append(nfs4.FH(nil), fh.Object...), err
}

// Remove removes a name. A directory must be empty.
func (s *Session) Remove(ctx context.Context, dir nfs4.FH, name string) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(dir)
	c.Add(nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes))
	return s.Do(ctx, c)
}

// Rename renames an object, and replaces an existing one.
func (s *Session) Rename(ctx context.Context, from nfs4.FH, name string, to nfs4.FH, newName string) error {
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(from)
	c.Add(nfs4.OpSaveFH, &void, &c.statusRes)
	c.PutFH(to)
	c.Add(nfs4.OpRename, &nfs4.RenameArgs{Old: []byte(name), New: []byte(newName)}, new(nfs4.RenameRes))
	return s.Do(ctx, c)
}

// An Entry is a directory entry with the requested attributes.
type Entry struct {
	Name  string
	Attrs nfs4.Attrs
}

// readDirSize is the maximum size in bytes of READDIR's results.
const readDirSize = 32 << 10

// ReadDir lists a directory, with attributes. The listing stops after an error.
func (s *Session) ReadDir(ctx context.Context, dir nfs4.FH, mask nfs4.Bitmap) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		args := nfs4.ReadDirArgs{Request: mask, DirCount: readDirSize, MaxCount: uint32(min(readDirSize, s.MaxRead()))}
		for {
			page, err := s.readDirPage(ctx, dir, &args)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.entries {
				if !yield(e, nil) {
					return
				}
			}
			if page.eof {
				return
			}
			args.Cookie, args.Verf = page.cookie, page.Verf
		}
	}
}

// readDirPage sends one READDIR.
func (s *Session) readDirPage(ctx context.Context, dir nfs4.FH, args *nfs4.ReadDirArgs) (readDirRes, error) {
	var page readDirRes
	c := s.getCompound()
	defer s.putCompound(c)
	c.PutFH(dir)
	c.Add(nfs4.OpReadDir, args, &page)
	err := s.Do(ctx, c)
	if err == nil && len(page.entries) == 0 && !page.eof {
		err = replyError("READDIR: no entries, but not at the end of the directory")
	}
	if err == nil && !page.eof && page.cookie == args.Cookie {
		err = replyError("READDIR: the last entry has the cookie at which the list began")
	}
	return page, err
}

// A readDirRes holds READDIR's results, with entries that do not alias the
// reply.
type readDirRes struct {
	nfs4.ReadDirRes
	entries []Entry
	cookie  uint64 // the last entry's
	eof     bool
}

// Decode reads the header and the entries. Each entry has a name, so the
// message length bounds their number.
func (l *readDirRes) Decode(r *xdr.Reader) {
	l.entries, l.eof = l.entries[:0], false
	if l.ReadDirRes.Decode(r); r.Err() != nil || l.Status != nfs4.OK {
		return
	}
	d := nfs4.DirReader{R: r}
	for e := (nfs4.DirEntry{}); d.Next(&e); {
		if len(e.Name) == 0 {
			r.Fail(xdr.ErrValue)
			return
		}
		detachAttrs(&e.Attrs)
		l.entries, l.cookie = append(l.entries, Entry{string(e.Name), e.Attrs}), e.Cookie
	}
	l.eof = d.EOF
}
