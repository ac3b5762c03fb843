// Package nstest runs tests in their own namespaces: a network in which only what
// the test creates exists, and mounts that end with the test. The package must not
// depend on what is tested.
package nstest
