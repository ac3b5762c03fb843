// Package conformance checks that docs/conformance.md is true: each requirement
// of docs/requirements.tsv has one row, each row names tests that exist, and
// the source of each named test contains the requirement's id.
//
//	docs/requirements.tsv ──ids──▶ docs/conformance.md ──tests──▶ *_test.go
//	                                                  ◀──ids────
//
// It reads sources and runs nothing: go test reports whether a test passes. It
// does not know the content of the requirements.
package conformance
