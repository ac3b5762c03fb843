package model

import (
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

const keep = 50 // operations reported for a divergence

// A Mount is a mount on the directory.
type Mount struct {
	Name string
	Player
}

// A Run does operations on mounts and compares the results.
type Run struct {
	Seed   uint64 // also chooses each operation's mount
	Source *Source
	Mounts []Mount
	Before func() // each operation, or nil
	// Leave, if not nil, reports that an operation is unsuitable for a mount.
	// The operation is then omitted.
	Leave func(t *Tree, o Op, mount string) bool
	Log   io.Writer // for each operation and its result, or nil
	Tree  *Tree     // the directory's expected state

	Done int // operations
	last []string
	r    *rand.Rand
}

// For does operations until the time is over, or a result is wrong.
func (u *Run) For(d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := u.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Step does one operation.
func (u *Run) Step() error {
	if u.r == nil {
		u.r = rand.New(rand.NewPCG(u.Seed, 3))
	}
	o, m := u.Source.next(), u.Mounts[u.r.IntN(len(u.Mounts))]
	if u.Leave != nil && u.Leave(u.Tree, o, m.Name) {
		return nil
	}
	if u.Before != nil {
		u.Before()
	}
	want := u.Tree.Do(o)
	got, err := m.Do(o)
	if err == nil {
		u.logLine(fmt.Sprintf("%6d %s: %s: %s", u.Done, m.Name, o, got))
		u.Done++
	}
	if err = checkResult(want, got, err); err != nil {
		return u.wrapError(m, o, err)
	}
	return nil
}

func (u *Run) logLine(line string) {
	if u.Log != nil {
		fmt.Fprintln(u.Log, line)
	}
	u.last = appendLatest(u.last, line)
}

// appendLatest appends a line, and drops the oldest beyond keep.
func appendLatest(last []string, line string) []string {
	last = append(last, line)
	if len(last) > keep {
		last = last[1:]
	}
	return last
}

func joinLines(last []string) string { return strings.Join(last, "\n") }

func (u *Run) wrapError(m Mount, o Op, err error) error {
	return fmt.Errorf("seed %d, operation %d on %s: %s %w\nthe last operations:\n%s",
		u.Seed, u.Done, m.Name, o, err, joinLines(u.last))
}

// sameResult compares a result with the model's. The model does not know all times.
// File systems that do not count directory links report 1.
func sameResult(want, got Result) bool {
	if want.Or != "" && want.Or == got.Err {
		return true
	}
	want.Or = ""
	if want.Attr != nil && got.Attr != nil {
		w, g := *want.Attr, *got.Attr
		if w.Mtime == 0 {
			g.Mtime = 0
		}
		if g.Type == "dir" && g.Nlink == 1 {
			w.Nlink = 1
		}
		if w != g {
			return false
		}
		want.Attr, got.Attr = nil, nil
	}
	return reflect.DeepEqual(want, got)
}

// Compare checks every expected object, and each of its bytes.
func (t *Tree) Compare(p Player) error { return compareTree(t.root, "", p) }

func compareTree(n *node, path string, p Player) error {
	check := func(o Op, want Result) error {
		got, err := p.Do(o)
		if err == nil && !sameResult(want, got) {
			err = fmt.Errorf("%s said %s and not %s", o, got, want)
		}
		return err
	}
	if path != "" {
		if err := check(Op{Kind: Stat, Path: path}, Result{Attr: n.attributes()}); err != nil {
			return err
		}
		path += "/"
	}
	switch n.kind {
	case "file":
		return check(Op{Kind: Read, Path: strings.TrimSuffix(path, "/"), Len: len(n.data) + 1}, readResult(n.data))
	case "link":
		return check(Op{Kind: Readlink, Path: strings.TrimSuffix(path, "/")}, Result{Text: n.target})
	}
	if err := check(Op{Kind: List, Path: path + "."}, Result{Names: n.sortedNames()}); err != nil {
		return err
	}
	for _, name := range n.sortedNames() {
		if err := compareTree(n.entries[name], path+name, p); err != nil {
			return err
		}
	}
	return nil
}

// Within returns a player in a subdirectory of another player's.
func Within(p Player, dir string) Player { return subdirPlayer{p, dir} }

type subdirPlayer struct {
	Player
	dir string
}

func (w subdirPlayer) Do(o Op) (Result, error) {
	o.Path = w.dir + "/" + o.Path
	if o.Kind == Link || o.Kind == Rename {
		o.To = w.dir + "/" + o.To
	}
	return w.Player.Do(o)
}
