// Package nstest runs tests in namespaces of their own: a network in which only what the
// test makes exists, and mounts that end with the test. The package must not know what
// is tested.
package nstest
