package model

import (
	"golang.org/x/sys/unix"
)

// doFileOp does the operations that open a file.
func (t *Tree) doFileOp(o Op) (Result, unix.Errno) {
	create := o.Kind == Create || o.Kind == Rewrite
	p, err := t.resolve(o.Path, !o.Excl)
	switch {
	case err != 0:
		return Result{}, err
	case p.node != nil && o.Excl:
		return Result{}, unix.EEXIST
	case p.node == nil && !create:
		return Result{}, unix.ENOENT
	case p.node == nil:
		p.node = &node{kind: "file", mode: o.Mode, nlink: 1}
		p.addNode(p.node)
	case p.node.kind == "dir": // also for reading: it opens, but cannot be read
		return Result{}, unix.EISDIR
	}
	n := p.node
	switch o.Kind {
	case Write:
		n.writeAt(o.Off, o.writtenBytes())
	case Append:
		n.writeAt(int64(len(n.data)), o.writtenBytes())
	case Rewrite:
		n.data, n.mtime = nil, 0
		n.writeAt(0, o.writtenBytes())
	case Read:
		return readResult(n.readAt(o.Off, o.Len)), 0
	case Reopen:
		r := readResult(n.readAt(o.Off, o.Len))
		r.Attr = n.attributes()
		return r, 0
	}
	return Result{}, 0
}

func (n *node) writeAt(off int64, b []byte) {
	if len(b) == 0 {
		return // an empty write is no change
	}
	n.resize(max(int64(len(n.data)), off+int64(len(b))))
	copy(n.data[off:], b)
}

// resize truncates a file, or extends it with zeros.
func (n *node) resize(size int64) {
	n.mtime = 0
	if size <= int64(len(n.data)) {
		n.data = n.data[:size:size] // the removed bytes do not return
		return
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

func (n *node) readAt(off int64, length int) []byte {
	from := min(off, int64(len(n.data)))
	return n.data[from:min(from+int64(length), int64(len(n.data)))]
}

// setAttr changes attributes.
func (t *Tree) setAttr(o Op) unix.Errno {
	n, err := t.lookup(o.Path, true)
	if err != 0 {
		return err
	}
	switch o.Kind {
	case Truncate:
		if n.kind == "dir" {
			return unix.EISDIR
		}
		n.resize(o.Off)
	case Chmod:
		n.mode = o.Mode
	case Utimes:
		n.mtime = o.Off
	}
	return 0
}

// doLookOp does the operations that change nothing.
func (t *Tree) doLookOp(o Op) (Result, unix.Errno) {
	n, err := t.lookup(o.Path, o.Kind == List)
	switch {
	case err != 0:
		return Result{}, err
	case o.Kind == Stat:
		return Result{Attr: n.attributes()}, 0
	case o.Kind == List && n.kind == "dir":
		return Result{Names: n.sortedNames()}, 0
	case o.Kind == List:
		return Result{}, unix.ENOTDIR
	case n.kind == "link":
		return Result{Text: n.target}, 0
	default:
		return Result{}, unix.EINVAL
	}
}

// doEntryOp makes or removes a name.
func (t *Tree) doEntryOp(o Op) unix.Errno {
	p, err := t.resolve(o.Path, false)
	if err != 0 {
		return err
	}
	remove := o.Kind == Unlink || o.Kind == Rmdir
	switch {
	case remove && p.node == nil:
		return unix.ENOENT
	case !remove && p.node != nil:
		return unix.EEXIST
	}
	switch o.Kind {
	case Mkdir:
		p.addNode(newDir(p.in, o.Mode))
	case Symlink:
		p.addNode(&node{kind: "link", mode: 0o777, nlink: 1, target: o.To})
	case Unlink:
		if p.node.kind == "dir" {
			return unix.EISDIR
		}
		p.removeName()
	case Rmdir:
		switch {
		case p.node.kind != "dir":
			return unix.ENOTDIR
		case len(p.node.entries) > 0:
			return unix.ENOTEMPTY
		}
		p.removeName()
	}
	return 0
}

func (t *Tree) makeLink(o Op) unix.Errno {
	n, err := t.lookup(o.Path, false)
	if err != 0 {
		return err
	}
	to, err := t.resolve(o.To, false)
	switch {
	case err != 0:
		return err
	case to.node != nil:
		return unix.EEXIST
	case n.kind == "dir":
		return unix.EPERM
	}
	n.nlink++
	to.addNode(n)
	return 0
}

func (t *Tree) renameEntry(o Op) unix.Errno {
	from, err := t.resolve(o.Path, false)
	if err != 0 {
		return err
	}
	to, err := t.resolve(o.To, false)
	if err != 0 {
		return err
	}
	if err := checkMove(from, to); err != 0 || from.node == to.node {
		return err
	}
	moved := from.node
	links := moved.nlink
	if to.node != nil {
		to.removeName()
	}
	from.removeName()
	moved.nlink = links
	to.addNode(moved)
	return 0
}

// checkMove reports why a rename fails, in the same order as Linux's checks.
func checkMove(from, to place) unix.Errno {
	switch {
	case from.node == nil:
		return unix.ENOENT
	case from.node.isAncestorOf(to.in):
		return unix.EINVAL
	case to.node == nil || from.node == to.node:
		return 0
	case to.node.isAncestorOf(from.in):
		return unix.ENOTEMPTY
	case from.node.kind == "dir" && to.node.kind != "dir":
		return unix.ENOTDIR
	case from.node.kind != "dir" && to.node.kind == "dir":
		return unix.EISDIR
	case len(to.node.entries) > 0:
		return unix.ENOTEMPTY
	}
	return 0
}

// isAncestorOf reports whether n is d or its ancestor.
func (n *node) isAncestorOf(d *node) bool {
	for ; d != nil; d = d.parent {
		if d == n {
			return true
		}
	}
	return false
}
