package model

import (
	"golang.org/x/sys/unix"
)

// file does the operations that open a file.
func (t *Tree) file(o Op) (Result, unix.Errno) {
	create := o.Kind == Create || o.Kind == Rewrite
	p, err := t.walk(o.Path, !o.Excl)
	switch {
	case err != 0:
		return Result{}, err
	case p.node != nil && o.Excl:
		return Result{}, unix.EEXIST
	case p.node == nil && !create:
		return Result{}, unix.ENOENT
	case p.node == nil:
		p.node = &node{kind: "file", mode: o.Mode, nlink: 1}
		p.add(p.node)
	case p.node.kind == "dir": // also for reading: it opens, but cannot be read
		return Result{}, unix.EISDIR
	}
	n := p.node
	switch o.Kind {
	case Write:
		n.write(o.Off, o.content())
	case Append:
		n.write(int64(len(n.data)), o.content())
	case Rewrite:
		n.data, n.mtime = nil, 0
		n.write(0, o.content())
	case Read:
		return had(n.read(o.Off, o.Len)), 0
	case Reopen:
		r := had(n.read(o.Off, o.Len))
		r.Attr = n.attr()
		return r, 0
	}
	return Result{}, 0
}

func (n *node) write(off int64, b []byte) {
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

func (n *node) read(off int64, length int) []byte {
	from := min(off, int64(len(n.data)))
	return n.data[from:min(from+int64(length), int64(len(n.data)))]
}

// set changes attributes.
func (t *Tree) set(o Op) unix.Errno {
	n, err := t.found(o.Path, true)
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

// look does the operations that change nothing.
func (t *Tree) look(o Op) (Result, unix.Errno) {
	n, err := t.found(o.Path, o.Kind == List)
	switch {
	case err != 0:
		return Result{}, err
	case o.Kind == Stat:
		return Result{Attr: n.attr()}, 0
	case o.Kind == List && n.kind == "dir":
		return Result{Names: n.names()}, 0
	case o.Kind == List:
		return Result{}, unix.ENOTDIR
	case n.kind == "link":
		return Result{Text: n.target}, 0
	default:
		return Result{}, unix.EINVAL
	}
}

// entry makes or removes a name.
func (t *Tree) entry(o Op) unix.Errno {
	p, err := t.walk(o.Path, false)
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
		p.add(dir(p.in, o.Mode))
	case Symlink:
		p.add(&node{kind: "link", mode: 0o777, nlink: 1, target: o.To})
	case Unlink:
		if p.node.kind == "dir" {
			return unix.EISDIR
		}
		p.remove()
	case Rmdir:
		switch {
		case p.node.kind != "dir":
			return unix.ENOTDIR
		case len(p.node.entries) > 0:
			return unix.ENOTEMPTY
		}
		p.remove()
	}
	return 0
}

func (t *Tree) link(o Op) unix.Errno {
	n, err := t.found(o.Path, false)
	if err != 0 {
		return err
	}
	to, err := t.walk(o.To, false)
	switch {
	case err != 0:
		return err
	case to.node != nil:
		return unix.EEXIST
	case n.kind == "dir":
		return unix.EPERM
	}
	n.nlink++
	to.add(n)
	return 0
}

func (t *Tree) rename(o Op) unix.Errno {
	from, err := t.walk(o.Path, false)
	if err != 0 {
		return err
	}
	to, err := t.walk(o.To, false)
	if err != 0 {
		return err
	}
	if err := movable(from, to); err != 0 || from.node == to.node {
		return err
	}
	moved := from.node
	links := moved.nlink
	if to.node != nil {
		to.remove()
	}
	from.remove()
	moved.nlink = links
	to.add(moved)
	return 0
}

// movable reports why a rename fails, in the order of Linux's checks.
func movable(from, to place) unix.Errno {
	switch {
	case from.node == nil:
		return unix.ENOENT
	case from.node.above(to.in):
		return unix.EINVAL
	case to.node == nil || from.node == to.node:
		return 0
	case to.node.above(from.in):
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

// above reports whether n is d or an ancestor of it.
func (n *node) above(d *node) bool {
	for ; d != nil; d = d.parent {
		if d == n {
			return true
		}
	}
	return false
}
