package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A callLoad makes the calls, and counts how often each change must be executed.
type callLoad struct {
	client *nfsclient.Client
	root   nfs3.FH
	calls  atomic.Int64
	names  atomic.Uint64 // number of names created

	mu     sync.Mutex
	issued map[string]int
}

// A callRound is one caller's round of calls. It makes a directory with a file, and
// removes both. The first error ends it.
type callRound struct {
	*callLoad
	ctx         context.Context
	err         error
	dir         nfs3.FH
	file        nfs3.FH
	data        []byte   // expected content of the file
	readResults [][]byte // results of READs, which must not change
}

// issueCall makes a call. change is the name of a change that is counted, or "".
func (w *callRound) issueCall(change string, call func() error) {
	if w.err != nil {
		return
	}
	if change != "" {
		w.mu.Lock()
		w.issued[change]++
		w.mu.Unlock()
	}
	w.calls.Add(1)
	if err := call(); err != nil {
		w.err = fmt.Errorf("%s: %w", change, err)
	}
}

func (w *callRound) dirOp(name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: w.dir, Name: []byte(name)}
}

// runRound makes all the calls. sizes are the lengths in bytes of the file's
// WRITEs.
func (l *callLoad) runRound(ctx context.Context, sizes []int) error {
	w := &callRound{callLoad: l, ctx: ctx, dir: l.root}
	name := fmt.Sprint("d", l.names.Add(1))
	w.issueCall("MKDIR "+name, func() error {
		res, err := l.client.Mkdir(ctx, &nfs3.MkdirArgs{Where: w.dirOp(name)})
		w.dir = res.Object
		return err
	})
	w.makeFile(name)
	for _, n := range sizes {
		w.writeUnique(uint64(len(w.data)), n)
	}
	w.writeUnique(0, sizes[0]) // overwrites
	w.readLengths(sizes)
	w.setMtime()
	w.moveNames(name)
	w.dir = l.root
	w.issueCall("RMDIR "+name, func() error { _, err := l.client.Rmdir(ctx, l.root, name); return err })
	for i, b := range w.readResults {
		if w.err == nil && !bytes.Equal(b, w.data[:len(b)]) {
			return fmt.Errorf("READ %d of %s: the memory was written to after the call", i, name)
		}
	}
	return w.err
}

func (w *callRound) makeFile(name string) {
	w.issueCall("CREATE f"+name, func() error {
		res, err := w.client.Create(w.ctx, &nfs3.CreateArgs{Where: w.dirOp("f" + name), Mode: nfs3.Guarded})
		w.file = res.Object
		return err
	})
}

// writeUnique writes n bytes that are unique to this call.
func (w *callRound) writeUnique(off uint64, n int) {
	id := w.names.Add(1)
	p := binary.BigEndian.AppendUint64(make([]byte, 0, n), id)
	for rng := rand.New(rand.NewPCG(id, 0)); len(p) < n; {
		p = binary.BigEndian.AppendUint64(p, rng.Uint64())
	}
	p = p[:n]
	how := nfs3.Unstable
	if id%2 == 0 {
		how = nfs3.DataSync
	}
	w.issueCall(fmt.Sprint("WRITE ", id), func() error {
		res, err := w.client.Write(w.ctx, w.file, off, p, how)
		if err == nil && int(res.Count) != n {
			err = fmt.Errorf("%d of %d bytes", res.Count, n)
		}
		return err
	})
	w.data = append(w.data[:min(int(off), len(w.data))], append(p, w.data[min(len(w.data), int(off)+n):]...)...)
}

// readLengths reads the file from its start in several lengths.
func (w *callRound) readLengths(sizes []int) {
	for _, n := range append(sizes, len(w.data)) {
		p := make([]byte, n)
		w.issueCall("", func() error {
			res, err := w.client.Read(w.ctx, w.file, 0, p)
			if err == nil && !bytes.Equal(res.Data, w.data[:n]) {
				err = fmt.Errorf("READ of %d bytes: wrong data", n)
			}
			return err
		})
		w.readResults = append(w.readResults, p)
	}
	w.issueCall("", func() error { _, err := w.client.Commit(w.ctx, w.file, 0, 0); return err })
}

func (w *callRound) setMtime() {
	sec := uint32(w.names.Add(1))
	a := nfs3.SetAttrArgs{Object: w.file}
	a.Attr.Mtime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: sec}}
	w.issueCall(fmt.Sprint("SETATTR ", sec), func() error { _, err := w.client.SetAttr(w.ctx, &a); return err })
	w.issueCall("", func() error {
		attr, err := w.client.GetAttr(w.ctx, w.file)
		if err == nil && (attr.Mtime.Sec != sec || attr.Size != uint64(len(w.data))) {
			err = fmt.Errorf("GETATTR: %+v", attr)
		}
		return err
	})
}

// moveNames adds names for the file and for others, renames and removes them.
func (w *callRound) moveNames(name string) {
	file, link, moved, sym, fifo := "f"+name, "l"+name, "m"+name, "s"+name, "p"+name
	w.issueCall("LINK "+link, func() error {
		_, err := w.client.Link(w.ctx, &nfs3.LinkArgs{File: w.file, Link: w.dirOp(link)})
		return err
	})
	w.issueCall("RENAME "+link, func() error {
		_, err := w.client.Rename(w.ctx, &nfs3.RenameArgs{From: w.dirOp(link), To: w.dirOp(moved)})
		return err
	})
	w.issueCall("SYMLINK "+sym, func() error {
		_, err := w.client.Symlink(w.ctx, &nfs3.SymlinkArgs{Where: w.dirOp(sym), Path: []byte(file)})
		return err
	})
	w.issueCall("MKNOD "+fifo, func() error {
		_, err := w.client.Mknod(w.ctx, &nfs3.MknodArgs{Where: w.dirOp(fifo), Type: nfs3.TypeFIFO})
		return err
	})
	w.issueCall("", func() error {
		found, err := w.client.Lookup(w.ctx, w.dir, moved)
		if err == nil && !bytes.Equal(found.Object, w.file) {
			err = fmt.Errorf("LOOKUP %s: another file", moved)
		}
		return err
	})
	for _, name := range []string{file, moved, sym, fifo} {
		w.issueCall("REMOVE "+name, func() error { _, err := w.client.Remove(w.ctx, w.dir, name); return err })
	}
}
