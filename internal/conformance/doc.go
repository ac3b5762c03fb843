// Package conformance checks that docs/conformance is true: each requirement in
// docs/requirements.tsv has one entry, each entry names tests that exist, and the
// source of each named test contains the requirement's id.
//
//	docs/requirements.tsv ──ids──▶ docs/conformance/*.md ──tests──▶ *_test.go
//	                                                    ◀──ids────
//
// It reads sources and runs nothing: go test reports whether a test passes. It does
// not interpret the requirements.
package conformance
