package mem

import (
	"slices"
	"sort"
)

// names are a directory's entries. They are listed in creation order, by cookies that are never
// reused, so a listing returns each remaining entry exactly once.
type names struct {
	byName map[string]*entry
	list   []*entry // in cookie order; dead entries have no node
	next   uint64
}

type entry struct {
	name   string
	node   *node // nil: removed
	cookie uint64
}

// Cookies for the entries that every directory has.
const (
	cookieDot    = 1
	cookieDotDot = 2
)

func newNames() *names { return &names{byName: make(map[string]*entry), next: cookieDotDot + 1} }

// get returns the object with a name, or nil.
func (d *names) get(name string) *node {
	if e := d.byName[name]; e != nil {
		return e.node
	}
	return nil
}

func (d *names) len() int { return len(d.byName) }

func (d *names) add(name string, n *node) {
	e := &entry{name: name, node: n, cookie: d.next}
	d.next++
	d.byName[name] = e
	d.list = append(d.list, e)
}

func (d *names) remove(name string) {
	e := d.byName[name]
	e.node = nil
	delete(d.byName, name)
	if len(d.list) > 2*len(d.byName)+slack {
		d.list = slices.Clone(slices.DeleteFunc(d.list, func(e *entry) bool { return e.node == nil }))
	}
}

// entriesAfter returns the entries after a cookie, including dead ones.
func (d *names) entriesAfter(cookie uint64) []*entry {
	i := sort.Search(len(d.list), func(i int) bool { return d.list[i].cookie > cookie })
	return d.list[i:]
}
