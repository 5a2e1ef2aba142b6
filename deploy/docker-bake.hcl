# docker buildx bake -f deploy/docker-bake.hcl [cpu|cuda]
# A builder that makes images of other machines' kinds: docker buildx create --use

variable "REGISTRY" {
  default = "" # with a slash at its end
}

variable "TAG" {
  default = "latest"
}

group "default" {
  targets = ["cpu", "cuda"]
}

target "cpu" {
  context    = "."
  dockerfile = "Dockerfile"
  target     = "cpu"
  platforms  = ["linux/amd64", "linux/arm64"]
  tags       = ["${REGISTRY}firstword:cpu-${TAG}"]
}

target "cuda" {
  context    = "."
  dockerfile = "Dockerfile"
  target     = "cuda"
  platforms  = ["linux/amd64"]
  tags       = ["${REGISTRY}firstword:cuda-${TAG}"]
}
