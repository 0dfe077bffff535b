"""The device that tests pretend to have, with the methods of vllm.platforms.interface.Platform."""


class Platform:
    capability = (9, 0)

    def is_cuda(self) -> bool:
        return self.capability is not None

    def has_device_capability(self, capability: tuple[int, int] | int, device_id: int = 0) -> bool:
        return self.capability is not None and self.capability >= capability


current_platform = Platform()
