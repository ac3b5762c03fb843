package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Linux begins to write back when its delegation for writing is recalled, and returns it
// before the end of that: by then a program may have closed the file long since, and others
// must see what it has written. Linux closes the file when all is written. So a
// file that the client still has open for writing is held for others a while longer, by
// the delegated that the client has returned.
const (
	// quietTime is how long a client that writes back may pause. A program may have the
	// file open, and nothing to write.
	quietTime = time.Second

	// writeBackTime is how long the client may take in all. A program may write on and on.
	writeBackTime = 10 * time.Second

	// writeBackLook is the time between two looks.
	writeBackLook = 10 * time.Millisecond
)

// given notes that the client returns f. Only what it returns because of a recall has
// somebody waiting for it.
func (f *delegated) given() {
	if f.writer != nil && f.late.Load() != nil && f.server.quiet > 0 && f.server.state.OpenToWrite(f.delegation) {
		f.writer.given()
	}
}

// releaseWritten is release once the client has written back.
func (f *delegated) releaseWritten() {
	s := f.server
	tick := time.NewTicker(writeBackLook)
	defer tick.Stop()
	start := time.Now()
	var last vfs.Attr
	for written := start; s.state.OpenToWrite(f.delegation); {
		attr, ok := f.writer.look(s.callbacks.ctx)
		now := time.Now()
		if attr != last {
			last, written = attr, now
		}
		if !ok || now.Sub(written) >= s.quiet || now.Sub(start) >= writeBackTime {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-s.callbacks.ctx.Done():
		}
		break
	}
	f.end()
}

// look returns the attributes of the file that change with a write. It needs a permit, as
// calls do: very many clients may write back at once to storage that hangs.
func (w *writer) look(ctx context.Context) (a vfs.Attr, ok bool) {
	if !w.export.Enter() {
		return a, false
	}
	defer w.export.Leave()
	var attr vfs.Attr
	var err error
	if w.of.server.realm.Visit(ctx, nil, w.export, func() { attr, err = w.export.FS.GetAttr(ctx, &vfs.Cred{}, w.handle) }) != nil {
		return a, false
	}
	return vfs.Attr{Size: attr.Size, Mtime: attr.Mtime, Ctime: attr.Ctime, Change: attr.Change}, err == nil
}
