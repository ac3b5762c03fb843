package main

import "runtime"

// A row compares ours with a limit, or with another of ours.
type row struct {
	name    string // what is measured
	against string // with what it is compared; "": nothing
	ours    side
	limit   side
	views   []view
	cpus    int // that it needs

	turns   int
	results [2][]*result // of ours, of the limit
}

// A side of a row measures one thing once.
type side func(*world) (*result, error)

// A view is what of the results is compared.
type view struct {
	what string // beside the row's name
	unit string
	of   func(*result) float64
	goal goal
}

// A goal is what a ratio, or where there is nothing to compare with a value, has
// to be.
type goal struct {
	most  bool // at most, or else at least,
	bound float64
}

func atLeast(x float64) goal { return goal{false, x} }
func atMost(x float64) goal  { return goal{true, x} }

// met tells whether x reaches the goal, if there is one.
func (g goal) met(x float64) bool {
	return g.bound == 0 || g.most && x <= g.bound || !g.most && x >= g.bound
}

// measure adds one result of each side. The side that goes first changes.
func (r *row) measure(w *world) error {
	sides := [2]side{r.ours, r.limit}
	for i := range sides {
		i = (i + r.turns) % len(sides)
		if sides[i] == nil {
			continue
		}
		res, err := sides[i](w)
		if err != nil {
			return err
		}
		r.results[i] = append(r.results[i], res)
	}
	r.turns++
	return nil
}

// series returns what a view shows of ours and of the limit.
func (r *row) series(v *view) (ours, limit series) {
	for _, res := range r.results[0] {
		ours = append(ours, v.of(res))
	}
	for _, res := range r.results[1] {
		limit = append(limit, v.of(res))
	}
	return ours, limit
}

// possible tells whether this machine has what the row needs.
func (r *row) possible() bool { return r.cpus <= runtime.NumCPU() }
