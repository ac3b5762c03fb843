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

// A load makes the calls, and counts how often each change must be executed.
type load struct {
	client *nfsclient.Client
	root   nfs3.FH
	calls  atomic.Int64
	names  atomic.Uint64 // of changes

	mu     sync.Mutex
	issued map[string]int
}

// A walk is one caller's round of calls. It makes a directory with a file, and
// removes both. The first error ends it.
type walk struct {
	*load
	ctx  context.Context
	err  error
	dir  nfs3.FH
	file nfs3.FH
	data []byte   // expected content of the file
	read [][]byte // results of READs, which must not change
}

// call makes a call. change is the name of a change that is counted, or "".
func (w *walk) call(change string, call func() error) {
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

func (w *walk) where(name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: w.dir, Name: []byte(name)}
}

// round makes all the calls. sizes are the lengths in bytes of the file's
// WRITEs.
func (l *load) round(ctx context.Context, sizes []int) error {
	w := &walk{load: l, ctx: ctx, dir: l.root}
	name := fmt.Sprint("d", l.names.Add(1))
	w.call("MKDIR "+name, func() error {
		res, err := l.client.Mkdir(ctx, &nfs3.MkdirArgs{Where: w.where(name)})
		w.dir = res.Object
		return err
	})
	w.makeFile(name)
	for _, n := range sizes {
		w.write(uint64(len(w.data)), n)
	}
	w.write(0, sizes[0]) // overwrites
	w.reads(sizes)
	w.setAttr()
	w.moveNames(name)
	w.dir = l.root
	w.call("RMDIR "+name, func() error { _, err := l.client.Rmdir(ctx, l.root, name); return err })
	for i, b := range w.read {
		if w.err == nil && !bytes.Equal(b, w.data[:len(b)]) {
			return fmt.Errorf("READ %d of %s: the memory was written to after the call", i, name)
		}
	}
	return w.err
}

func (w *walk) makeFile(name string) {
	w.call("CREATE f"+name, func() error {
		res, err := w.client.Create(w.ctx, &nfs3.CreateArgs{Where: w.where("f" + name), Mode: nfs3.Guarded})
		w.file = res.Object
		return err
	})
}

// write writes n bytes that are unique to this call.
func (w *walk) write(off uint64, n int) {
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
	w.call(fmt.Sprint("WRITE ", id), func() error {
		res, err := w.client.Write(w.ctx, w.file, off, p, how)
		if err == nil && int(res.Count) != n {
			err = fmt.Errorf("%d of %d bytes", res.Count, n)
		}
		return err
	})
	w.data = append(w.data[:min(int(off), len(w.data))], append(p, w.data[min(len(w.data), int(off)+n):]...)...)
}

// reads reads the file from its start in several lengths.
func (w *walk) reads(sizes []int) {
	for _, n := range append(sizes, len(w.data)) {
		p := make([]byte, n)
		w.call("", func() error {
			res, err := w.client.Read(w.ctx, w.file, 0, p)
			if err == nil && !bytes.Equal(res.Data, w.data[:n]) {
				err = fmt.Errorf("READ of %d bytes: wrong data", n)
			}
			return err
		})
		w.read = append(w.read, p)
	}
	w.call("", func() error { _, err := w.client.Commit(w.ctx, w.file, 0, 0); return err })
}

func (w *walk) setAttr() {
	sec := uint32(w.names.Add(1))
	a := nfs3.SetAttrArgs{Object: w.file}
	a.Attr.Mtime = nfs3.SetTime{How: nfs3.SetToClientTime, Time: nfs3.Time{Sec: sec}}
	w.call(fmt.Sprint("SETATTR ", sec), func() error { _, err := w.client.SetAttr(w.ctx, &a); return err })
	w.call("", func() error {
		attr, err := w.client.GetAttr(w.ctx, w.file)
		if err == nil && (attr.Mtime.Sec != sec || attr.Size != uint64(len(w.data))) {
			err = fmt.Errorf("GETATTR: %+v", attr)
		}
		return err
	})
}

// moveNames adds names for the file and for others, renames and removes them.
func (w *walk) moveNames(name string) {
	file, link, moved, sym, fifo := "f"+name, "l"+name, "m"+name, "s"+name, "p"+name
	w.call("LINK "+link, func() error {
		_, err := w.client.Link(w.ctx, &nfs3.LinkArgs{File: w.file, Link: w.where(link)})
		return err
	})
	w.call("RENAME "+link, func() error {
		_, err := w.client.Rename(w.ctx, &nfs3.RenameArgs{From: w.where(link), To: w.where(moved)})
		return err
	})
	w.call("SYMLINK "+sym, func() error {
		_, err := w.client.Symlink(w.ctx, &nfs3.SymlinkArgs{Where: w.where(sym), Path: []byte(file)})
		return err
	})
	w.call("MKNOD "+fifo, func() error {
		_, err := w.client.Mknod(w.ctx, &nfs3.MknodArgs{Where: w.where(fifo), Type: nfs3.TypeFIFO})
		return err
	})
	w.call("", func() error {
		found, err := w.client.Lookup(w.ctx, w.dir, moved)
		if err == nil && !bytes.Equal(found.Object, w.file) {
			err = fmt.Errorf("LOOKUP %s: another file", moved)
		}
		return err
	})
	for _, name := range []string{file, moved, sym, fifo} {
		w.call("REMOVE "+name, func() error { _, err := w.client.Remove(w.ctx, w.dir, name); return err })
	}
}
