// Package floors holds a test that reads the imports of every source file and
// compares them with the floors drawn in ARCHITECTURE.md. It has no code of its
// own and imports none of the module.
package floors
