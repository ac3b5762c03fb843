package exports

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Error is an error, or a warning, at a position in a file.
type Error struct {
	File      string
	Line, Col int    // from 1; Col in bytes
	What      string // including the remedy, after a semicolon
}

// Error returns FILE:LINE:COL: error; remedy.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.What) }

// A report collects the errors and warnings in a file.
type report struct {
	file     string   // the current one
	files    []string // all so far
	errs     []*Error // at most maxErrors
	count    int      // number of all errors
	last     *Error   // the last error
	warnings []*Error
}

func (r *report) newError(p position, format string, args ...any) *Error {
	return &Error{File: r.file, Line: int(p.line), Col: int(p.col), What: fmt.Sprintf(format, args...)}
}

func (r *report) addError(p position, format string, args ...any) {
	r.count++
	r.last = r.newError(p, format, args...)
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, r.last)
	}
}

func (r *report) addWarning(p position, format string, args ...any) {
	if len(r.warnings) < maxErrors {
		r.warnings = append(r.warnings, r.newError(p, format, args...))
	}
}

// startFile begins with another file.
func (r *report) startFile(name string) {
	r.file = name
	r.files = append(r.files, name)
}

// joinedError returns all errors as one, in the order of their files and positions, or nil.
func (r *report) joinedError() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(slices.Index(r.files, a.File), slices.Index(r.files, b.File)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	var errs []error
	for _, e := range r.errs {
		errs = append(errs, e)
	}
	if more := r.count - len(r.errs); more > 0 {
		errs = append(errs, fmt.Errorf("%s: %d errors more", strings.Join(r.files, ", "), more))
	}
	return errors.Join(errs...)
}
