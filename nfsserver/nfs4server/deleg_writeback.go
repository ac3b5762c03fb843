package nfs4server

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Linux begins to write back when its write delegation is recalled, and returns the delegation
// before it has finished: a program may have closed the file long before, and others must see
// what it has written. Linux closes the file after writing everything. So if the client still
// has a file open for writing when it returns a delegation, the delegatedFile is kept for a
// while longer and delays others.
const (
	// maxWriteBackPause is the maximum time that a client that writes back may pause. A program
	// may have the file open and nothing to write.
	maxWriteBackPause = time.Second

	// maxWriteBackTime is the maximum total time that the client may take. A program may never
	// stop writing.
	maxWriteBackTime = 10 * time.Second

	// writeBackPoll is the interval between checks.
	writeBackPoll = 10 * time.Millisecond
)

// noteReturn records that the client returns f. Other clients wait only for what it returns
// after a recall.
func (f *delegatedFile) noteReturn() {
	if f.writer != nil && f.revokeTimer.Load() != nil && f.server.writeBackPause > 0 && f.server.state.IsOpenForWriting(f.delegation) {
		f.writer.noteReturn()
	}
}

// releaseAfterWriteBack releases f once the client has written back.
func (f *delegatedFile) releaseAfterWriteBack() {
	s := f.server
	tick := time.NewTicker(writeBackPoll)
	defer tick.Stop()
	start := time.Now()
	var last vfs.Attr
	for written := start; s.state.IsOpenForWriting(f.delegation); {
		attr, ok := f.writer.statFile(s.callbacks.ctx)
		now := time.Now()
		if attr != last {
			last, written = attr, now
		}
		if !ok || now.Sub(written) >= s.writeBackPause || now.Sub(start) >= maxWriteBackTime {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-s.callbacks.ctx.Done():
		}
		break
	}
	f.releaseNow()
}

// statFile returns the file attributes that change with a write. It requires a permit, as calls
// do: very many clients may write back at once to storage that does not respond.
func (w *delegatedWriter) statFile(ctx context.Context) (a vfs.Attr, ok bool) {
	if !w.export.Enter() {
		return a, false
	}
	defer w.export.Leave()
	var attr vfs.Attr
	var err error
	if w.file.server.exports.RunWithPermit(ctx, nil, w.export, func() { attr, err = w.export.FS.GetAttr(ctx, &vfs.Cred{}, w.handle) }) != nil {
		return a, false
	}
	return vfs.Attr{Size: attr.Size, Mtime: attr.Mtime, Ctime: attr.Ctime, Change: attr.Change}, err == nil
}
