package exports

import (
	"errors"
	"fmt"
)

// An Error is what is wrong, or strange, at one place of a file.
type Error struct {
	File      string
	Line, Col int    // from 1; Col in octets
	What      string // and what to change, behind a semicolon
}

// Error returns FILE:LINE:COL: what; remedy.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.What) }

// A report gathers what is found in a file.
type report struct {
	file     string
	errs     []error
	warnings []*Error
}

func (r *report) at(p position, format string, args ...any) *Error {
	return &Error{File: r.file, Line: p.line, Col: p.col, What: fmt.Sprintf(format, args...)}
}

// fail notes an error. Of more than maxErrors, the number is told.
func (r *report) fail(p position, format string, args ...any) {
	r.errs = append(r.errs, r.at(p, format, args...))
}

func (r *report) warn(p position, format string, args ...any) {
	if len(r.warnings) < maxErrors {
		r.warnings = append(r.warnings, r.at(p, format, args...))
	}
}

// err is all errors as one, or nil.
func (r *report) err() error {
	errs := r.errs
	if n := len(errs) - maxErrors; n > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("%s: %d errors more", r.file, n))
	}
	return errors.Join(errs...)
}
