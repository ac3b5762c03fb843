package delegation

import (
	"fmt"
	"slices"
	"time"
)

// A simTree is a file system with two directories and a complete history.
type simTree struct {
	s     *simulation
	dirs  [2]*simDir
	files []*simFile
}

type simDir struct {
	key   string
	names [3]valueHistory[*simFile] // nil: no such name
}

type simFile struct {
	key    string
	id     int
	data   valueHistory[string]
	ctime  int64
	writes int
}

// A valueHistory is a value with its history.
type valueHistory[T comparable] struct{ was []historyEntry[T] }

type historyEntry[T comparable] struct {
	since int // sim.n
	v     T
}

func (p *valueHistory[T]) current() T { return p.was[len(p.was)-1].v }

func (p *valueHistory[T]) setValue(s *simulation, v T) {
	p.was = append(p.was, historyEntry[T]{s.n, v})
}

// hadSince reports whether the value was v at some time between two events.
func (p *valueHistory[T]) hadSince(v T, from, to int) bool {
	for i, w := range p.was {
		if w.v == v && w.since <= to && (i == len(p.was)-1 || p.was[i+1].since >= from) {
			return true
		}
	}
	return false
}

func newSimTree(s *simulation) *simTree {
	t := &simTree{s: s}
	t.newFile() // always at least one file, possibly without a name
	for i := range t.dirs {
		t.dirs[i] = &simDir{key: fmt.Sprint("dir", i)}
		for n := range t.dirs[i].names {
			var f *simFile
			if s.oneIn(2) {
				f = t.newFile()
			}
			t.dirs[i].names[n].setValue(s, f)
		}
	}
	return t
}

// newFile creates a file without a name.
func (t *simTree) newFile() *simFile {
	f := &simFile{key: fmt.Sprint("file", len(t.files)), id: len(t.files)}
	t.files = append(t.files, f)
	f.data.setValue(t.s, "")
	t.touchFile(f)
	return f
}

// wallClock is the server's clock; file times advance in 10 ms ticks.
func (t *simTree) wallClock() int64 { return int64(1_700_000_000*time.Second + t.s.now) }

func (t *simTree) touchFile(f *simFile) {
	const tick = int64(10 * time.Millisecond)
	f.ctime = t.wallClock() / tick * tick
}

func (t *simTree) stampOf(f *simFile) Stamp {
	return Stamp{Size: uint64(len(f.data.current())), MTime: f.ctime, CTime: f.ctime}
}

// writeFile gives f new data, unlike any earlier data of f but of the same length.
func (t *simTree) writeFile(f *simFile) {
	f.writes++
	f.data.setValue(t.s, fmt.Sprintf("%d.%04d", f.id, f.writes))
	t.touchFile(f)
}

func (t *simTree) truncateFile(f *simFile) {
	f.data.setValue(t.s, "")
	t.touchFile(f)
}

// A dirEntry is a name in a directory.
type dirEntry struct{ dir, name int }

func (t *simTree) nameHistory(p dirEntry) *valueHistory[*simFile] {
	return &t.dirs[p.dir].names[p.name]
}

// An opKind is a kind of change.
type opKind int

const (
	opWrite opKind = iota // the file
	opTruncate
	opCreate // the place from; truncates an existing file
	opUnlink
	opRename // the place from, to the place to
	opKinds
)

// A simOp is one change.
type simOp struct {
	kind     opKind
	file     *simFile
	from, to dirEntry
}

func (o *simOp) String() string {
	switch o.kind {
	case opWrite, opTruncate:
		return fmt.Sprintf("op %d of %s", o.kind, o.file.key)
	}
	return fmt.Sprintf("op %d of %v to %v", o.kind, o.from, o.to)
}

// affectedKeys returns the objects that the change currently affects.
func (t *simTree) affectedKeys(o *simOp) (keys []string) {
	add := func(f *simFile) {
		if f != nil {
			keys = append(keys, f.key)
		}
	}
	switch o.kind {
	case opWrite, opTruncate:
		add(o.file)
	case opCreate, opUnlink:
		keys = append(keys, t.dirs[o.from.dir].key)
		add(t.nameHistory(o.from).current())
	case opRename:
		keys = append(keys, t.dirs[o.from.dir].key, t.dirs[o.to.dir].key)
		add(t.nameHistory(o.from).current())
		add(t.nameHistory(o.to).current())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// applyChange executes the change.
func (t *simTree) applyChange(o *simOp) {
	switch o.kind {
	case opWrite:
		t.writeFile(o.file)
	case opTruncate:
		t.truncateFile(o.file)
	case opCreate:
		if f := t.nameHistory(o.from).current(); f != nil {
			t.truncateFile(f)
		} else {
			t.nameHistory(o.from).setValue(t.s, t.newFile())
		}
	case opUnlink:
		if f := t.nameHistory(o.from).current(); f != nil {
			t.nameHistory(o.from).setValue(t.s, nil)
			t.touchFile(f)
		}
	case opRename:
		f, over := t.nameHistory(o.from).current(), t.nameHistory(o.to).current()
		if f == nil || f == over {
			return
		}
		t.nameHistory(o.from).setValue(t.s, nil)
		t.nameHistory(o.to).setValue(t.s, f)
		t.touchFile(f)
		if over != nil {
			t.touchFile(over)
		}
	}
}
