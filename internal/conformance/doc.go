// Package conformance checks that docs/conformance.md tells the truth: each
// requirement of docs/requirements.tsv has one row, each row names tests that
// exist, and the source of each named test contains the requirement's id.
//
//	docs/requirements.tsv ──ids──▶ docs/conformance.md ──tests──▶ *_test.go
//	                                                  ◀──ids────
//
// It reads sources and runs nothing: whether a test passes is for go test to
// say. It does not know what the requirements are about.
package conformance
