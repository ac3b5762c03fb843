// Package floors holds a test that reads the imports of every source file and
// compares them with the floors drawn in ARCHITECTURE.md. It has no other code
// and imports no package of the module.
package floors
