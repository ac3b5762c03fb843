package nfsrdma

// A cleanup is a stack of functions that release what a constructor has acquired, for the
// case that it fails.
type cleanup []func()

// add pushes a function.
func (c *cleanup) add(release func()) { *c = append(*c, release) }

// discard removes all functions: the constructor has succeeded.
func (c *cleanup) discard() { *c = nil }

// run calls the functions, the latest first.
func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
	c.discard()
}
