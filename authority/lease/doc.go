// Package lease keeps who lives and who owns what: the bucket, each process's lease in it, and
// what every process has heard of it.
package lease
